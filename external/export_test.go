package external

// ProviderKey is providerKey.
func ProviderKey(scope, tool, key string) string { return providerKey(scope, tool, key) }

// ParkedSQL reads a page of what needs attention.
func ParkedSQL(x *Tools) string { return x.sql().parked }
