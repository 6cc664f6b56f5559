package external

// ProviderKey is providerKey.
func ProviderKey(scope, tool, key string) string { return providerKey(scope, tool, key) }
