package table

import (
	"context"
	"time"

	"github.com/tooldedup/dedup/internal/wire"
)

// OpeningAll is what an attempt of many calls found when it began.
type OpeningAll struct {
	// Started is now() in the transaction, which names it.
	Started time.Time
	// Locked is how many entries have their lock: the first ones. Only MaxLocks take
	// one, and with ClaimFirst none does, since claims would write every row twice. For
	// the others the primary key decides alone, when the record is written.
	Locked int
	// Taken is the number of the entry whose lock is taken, -1 where there is none. The
	// locks behind it were not tried: else two attempts could hold what the other needs,
	// again and again.
	Taken int
	// Forgotten are the numbers of the entries with a record in their way that may be
	// forgotten.
	Forgotten []int
}

// OpenAll begins a transaction, takes the locks and looks, in one pipeline. It calls found
// for every entry that has a record.
func (t *Table) OpenAll(ctx context.Context, on *wire.Conn, entries []*Entry, found func(n int, r Record)) (OpeningAll, error) {
	open := OpeningAll{Taken: -1}
	if err := on.Prepare(ctx, t.begin.Query, t.setUp, t.tryLocks, t.lookUpAll, t.insert, t.Commit); err != nil {
		return open, err
	}
	p := on.Pipeline()
	p.QueueBegin(&t.begin)
	p.Queue(t.setUp)
	var locks []int64
	if !t.opts.ClaimFirst {
		for _, e := range entries[:min(len(entries), MaxLocks)] {
			locks = append(locks, e.Lock)
		}
		p.Queue(t.tryLocks, wire.Ints(locks))
	}
	p.Queue(t.lookUpAll, ids(entries)...)
	results := p.Send(ctx)
	_, err := results.Exec()
	if err == nil {
		err = results.Scan(nil, &results.Room.Times[0], nil)
		open.Started = results.Room.Times[0]
	}
	open.Locked = len(locks)
	if err == nil && !t.opts.ClaimFirst {
		err = results.Each([]any{&results.Room.Int}, func() error {
			open.Taken = int(results.Room.Int) - 1
			open.Locked = open.Taken
			return nil
		})
	}
	if err == nil {
		open.Forgotten, err = readAll(results, found)
	}
	return open, results.Close(err)
}

// LookUpAll calls found for every entry that has a record, in one round trip and outside a
// transaction. It returns the numbers of those with a record that may be forgotten.
func (t *Table) LookUpAll(ctx context.Context, on *wire.Conn, entries []*Entry, found func(n int, r Record)) ([]int, error) {
	if err := on.Prepare(ctx, t.primary, t.lookUpAll); err != nil {
		return nil, err
	}
	p := on.Pipeline()
	p.Queue(t.primary)
	p.Queue(t.lookUpAll, ids(entries)...)
	results := p.Send(ctx)
	_, err := results.Exec()
	var forgotten []int
	if err == nil {
		forgotten, err = readAll(results, found)
	}
	return forgotten, results.Close(err)
}

// readAll reads the answer of lookUpAll. It returns the numbers of the entries whose
// record may be forgotten.
func readAll(results *wire.Results, found func(n int, r Record)) (forgotten []int, err error) {
	room := &results.Room
	dest := append([]any{&room.Int}, columns(room)...)
	err = results.Each(dest, func() error {
		var r Record
		if err := r.fill(results); err != nil {
			return err
		}
		room.Bytes[0], room.Bytes[1], room.Maybe = nil, nil, nil
		if n := int(room.Int) - 1; r.Forgotten() {
			forgotten = append(forgotten, n)
		} else {
			found(n, r)
		}
		return nil
	})
	return forgotten, err
}

// ForgetAll deletes the records of entries that may be forgotten, before the effects are
// run.
func (t *Table) ForgetAll(ctx context.Context, on *wire.Conn, entries []*Entry) error {
	if err := on.Prepare(ctx, append(t.lockTimeout.usual(), t.forgetAll)...); err != nil {
		return err
	}
	p := on.Pipeline()
	read := t.queueLimited(p, RowTimeout, t.forgetAll, ids(entries)...)
	results := p.Send(ctx)
	err := read(results, func() error { _, err := results.Exec(); return err })
	return results.Close(err)
}
