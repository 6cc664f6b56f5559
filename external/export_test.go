package external

import "time"

// SetClock sets the clock of x's leases. Call it before x is used.
func SetClock(x *Tools, now func() time.Time) { x.now = now }

// ProviderKey is providerKey.
func ProviderKey(scope, tool, key string) string { return providerKey(scope, tool, key) }

// ParkedSQL returns the statement of [Tools.Parked].
func ParkedSQL(x *Tools) string { return x.sql.parked }
