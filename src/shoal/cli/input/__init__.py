"""What commands read: options, files, names, the cluster they speak to."""
