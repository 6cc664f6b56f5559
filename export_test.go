package dedup

import "time"

// SetBack has d take the database's clock for one that goes behind, as after a
// failover to a server whose clock goes ahead.
func (d *Deduper) SetBack(by time.Duration) { d.clock.ahead.Add(-by.Microseconds()) }
