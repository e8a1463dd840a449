"""The cloud: the package for AWS, made of the app and of the templates in `infra/template`."""
