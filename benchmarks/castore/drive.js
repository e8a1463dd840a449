// Drives castore's DynamoDB adapter. Reads a task as JSON from standard input:
// {"endpoint", "table", "task": "push" | "group" | "read", "events": [...], "together": 20, "aggregates": [...]}
// Prints the number of events pushed or read.
import { readFileSync } from "node:fs";

import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { EventStore, EventType } from "@castore/core";
import { DynamoDBSingleTableEventStorageAdapter } from "@castore/event-storage-adapter-dynamodb";

const { endpoint, table, task, events = [], together = 1, aggregates = [] } = JSON.parse(readFileSync(0, "utf8"));
const dynamoDBClient = new DynamoDBClient({
  endpoint,
  region: "eu-central-1",
  credentials: { accessKeyId: "bench", secretAccessKey: "bench" },
});
const types = [...new Set(events.map(({ type }) => type))];
const jobs = new EventStore({
  eventStoreId: "JOBS",
  eventTypes: types.map((type) => new EventType({ type })),
  reducer: (job, event) => ({ ...job, ...event.payload, aggregateId: event.aggregateId, version: event.version }),
  eventStorageAdapter: new DynamoDBSingleTableEventStorageAdapter({ tableName: table, dynamoDBClient }),
});

const tasks = {
  async push() {
    for (const event of events) await jobs.pushEvent(event);
    return events.length;
  },
  async group() {
    for (let start = 0; start < events.length; start += together) {
      const group = events.slice(start, start + together);
      await EventStore.pushEventGroup(...group.map((event) => jobs.groupEvent(event)));
    }
    return events.length;
  },
  async read() {
    let count = 0;
    for (const id of aggregates) count += (await jobs.getAggregate(id)).events.length;
    return count;
  },
};

console.log(await tasks[task]());
