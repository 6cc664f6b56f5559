package dedup

import "time"

// Calm has d expect first calls and no replays of these statements, as after many
// of them, however slow the machine is.
func (d *Deduper) Calm(statements ...string) {
	d.foresight.slow = time.Hour
	d.foresight.firsts.Store(calm)
	for _, sql := range statements {
		text, err := d.texts.text(sql)
		if err != nil {
			panic(err)
		}
		text.took.Store(1)
	}
}

// SetBack has d take the database's clock for one that goes behind, as after a
// failover to a server whose clock goes ahead.
func (d *Deduper) SetBack(by time.Duration) { d.clock.ahead.Add(-by.Microseconds()) }
