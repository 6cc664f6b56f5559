package external

import "time"

// SetClock gives x a clock that its leases end by. It is called before x is used.
func SetClock(x *Tools, now func() time.Time) { x.now = now }

// ProviderKey is providerKey.
func ProviderKey(scope, tool, key string) string { return providerKey(scope, tool, key) }

// ParkedSQL reads a page of what needs attention.
func ParkedSQL(x *Tools) string { return x.sql.parked }
