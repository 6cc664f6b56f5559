package airline

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
	"github.com/tooldedup/dedup/tool"
)

// Domain is the name under which the airline's tools and tables go.
const Domain = "airline"

var (
	users        = kit.Table[User]{Domain: Domain, Name: "users", ID: "user_id", Missing: "user not found"}
	reservations = kit.Table[Reservation]{Domain: Domain, Name: "reservations", ID: "reservation_id", Missing: "reservation not found"}
	flights      = kit.Table[Flight]{Domain: Domain, Name: "flights", ID: "flight_number"}
	// shown refuses as the recorded tool does, which speaks of a user.
	shown = kit.Table[Reservation]{Domain: Domain, Name: "reservations", ID: "reservation_id", Missing: "user not found"}
)

// Tools are the airline's tools under the names of the recordings.
func Tools() []kit.Tool {
	return []kit.Tool{
		kit.Define("book_reservation", tool.Write, bookReservation),
		kit.Change("cancel_reservation", tool.Destructive, reservations, cancel),
		kit.Change("update_reservation_flights", tool.Write, reservations, updateFlights),
		kit.Change("update_reservation_baggages", tool.Write, reservations, updateBaggages),
		kit.Change("update_reservation_passengers", tool.Write, reservations, updatePassengers),
		kit.Define("send_certificate", tool.Destructive, sendCertificate),
		kit.Show[UserIn]("get_user_details", users),
		kit.Show[ReservationIn]("get_reservation_details", shown),
		kit.Define("list_all_airports", tool.ReadOnly, airports),
		kit.Define("search_direct_flight", tool.ReadOnly, searchDirect),
		kit.Define("search_onestop_flight", tool.ReadOnly, searchOnestop),
	}
}

// UserIn are the arguments of get_user_details.
type UserIn struct {
	UserID string `json:"user_id"`
}

// Subject is the user.
func (in UserIn) Subject() string { return in.UserID }

// ReservationIn are the arguments of get_reservation_details and of cancel_reservation.
type ReservationIn struct {
	ReservationID string `json:"reservation_id"`
}

// Subject is the reservation.
func (in ReservationIn) Subject() string { return in.ReservationID }

// airports returns the city of every airport by its code. The list is part of the recorded tool
// and stands in no table.
func airports(context.Context, pgx.Tx, struct{}) (map[string]string, error) {
	return map[string]string{
		"SFO": "San Francisco", "JFK": "New York", "LAX": "Los Angeles", "ORD": "Chicago",
		"DFW": "Dallas", "DEN": "Denver", "SEA": "Seattle", "ATL": "Atlanta",
		"MIA": "Miami", "BOS": "Boston", "PHX": "Phoenix", "IAH": "Houston",
		"LAS": "Las Vegas", "MCO": "Orlando", "EWR": "Newark", "CLT": "Charlotte",
		"MSP": "Minneapolis", "DTW": "Detroit", "PHL": "Philadelphia", "LGA": "LaGuardia",
	}, nil
}
