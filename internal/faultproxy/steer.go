package faultproxy

// Pilot decides about a unit that has arrived whole. The unit and its successors on the connection
// wait until the pilot returns. The returned fault hits the unit. Nil lets it pass.
type Pilot func(Unit) *Armed

// Steer makes a pilot decide about every further unit, start-up exchanges included, instead of the
// armed faults. Several connections may call it concurrently. Nil removes the pilot.
//
// A steered proxy passes no cancel request on: the request could hit a later unit that the pilot
// released.
func (p *Proxy) Steer(pilot Pilot) {
	p.armory.mu.Lock()
	defer p.armory.mu.Unlock()
	p.armory.pilot = pilot
}

// Aim makes a fault for a pilot to return for one unit. Only its kind, delay and answer count. It
// also settles if the connection ends before the fault can happen.
func (p *Proxy) Aim(f Fault) *Armed {
	a := p.prepare(f)
	a.aimed = true
	return a
}

// Settled is closed when [Armed.WaitSettled] returns.
func (a *Armed) Settled() <-chan struct{} { return a.settled.c }
