package airline

import (
	"github.com/tooldedup/dedup/proof/internal/world/kit"
	"github.com/tooldedup/dedup/tool"
)

// Tools are the airline's tools under the names of the recordings. An update
// that overwrites is a Write all the same: every run stands in the audit log.
func Tools() []kit.Tool {
	return []kit.Tool{
		kit.Define("book_reservation", tool.Write, BookReservation),
		kit.Define("cancel_reservation", tool.Destructive, CancelReservation),
		kit.Define("update_reservation_flights", tool.Write, UpdateFlights),
		kit.Define("update_reservation_baggages", tool.Write, UpdateBaggages),
		kit.Define("update_reservation_passengers", tool.Write, UpdatePassengers),
		kit.Define("send_certificate", tool.Destructive, SendCertificate),
		kit.Define("get_user_details", tool.ReadOnly, UserDetails),
		kit.Define("get_reservation_details", tool.ReadOnly, ReservationDetails),
		kit.Define("list_all_airports", tool.ReadOnly, Airports),
		kit.Define("search_direct_flight", tool.ReadOnly, SearchDirect),
		kit.Define("search_onestop_flight", tool.ReadOnly, SearchOnestop),
	}
}
