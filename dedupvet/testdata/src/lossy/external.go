package lossy

import "github.com/tooldedup/dedup/external"

var (
	_ = external.Tool[seat, int]{}   // want `In loses a part of what it holds as JSON: the value, a lossy.seat, is encoded without cabin`
	_ = external.Tool[int, ticket]{} // want `Out loses a part of what it holds as JSON: the value, a lossy.ticket`
	_ = external.Tool[int, seat]{}
)
