// castore's DynamoDB adapter, told on standard input what to do:
// {"endpoint", "table", "task": "push" | "group" | "read", "events": [...], "together": 20, "aggregates": [...]}
// Prints how many events it pushed or found.
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
      const some = events.slice(start, start + together);
      await EventStore.pushEventGroup(...some.map((event) => jobs.groupEvent(event)));
    }
    return events.length;
  },
  async read() {
    let found = 0;
    for (const id of aggregates) found += (await jobs.getAggregate(id)).events.length;
    return found;
  },
};

console.log(await tasks[task]());
