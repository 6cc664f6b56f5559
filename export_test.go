package dedup

// Calm has d expect first calls and no replays, as after many of them.
func (d *Deduper) Calm() { d.foresight.firsts.Store(calm) }
