"""yarn-operator against Hadoop's own ResourceManagers and NodeManager (`make e2e-yarn`)."""
