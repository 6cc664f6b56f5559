package airline

import (
	"github.com/tooldedup/dedup/cmd/dedup/internal/recording"
	"github.com/tooldedup/dedup/cmd/dedup/internal/world/tool"
)

// Tools are the airline's tools under the names of the recordings.
func Tools() []tool.Tool {
	return []tool.Tool{
		tool.JSON(name("book_reservation"), recording.Write, BookReservation),
		tool.JSON(name("cancel_reservation"), recording.Write, CancelReservation),
		tool.JSON(name("update_reservation_flights"), recording.Write, UpdateFlights),
		tool.JSON(name("update_reservation_baggages"), recording.Write, UpdateBaggages),
		tool.JSON(name("update_reservation_passengers"), recording.Write, UpdatePassengers),
		tool.Text(name("send_certificate"), recording.Write, SendCertificate),
		tool.JSON(name("get_user_details"), recording.Read, UserDetails),
		tool.JSON(name("get_reservation_details"), recording.Read, ReservationDetails),
		tool.JSON(name("search_direct_flight"), recording.Read, SearchDirect),
		tool.JSON(name("search_onestop_flight"), recording.Read, SearchOnestop),
	}
}

func name(name string) tool.Name {
	return tool.Name{Domain: Domain, Tool: name}
}
