"""`python -m annals_client` is `annals`."""

from annals_client.cli.main import main

if __name__ == "__main__":
    main()
