// Package airline has the airline's tools: ordinary functions on the
// transaction that they are handed, with typed arguments and results.
//
// Every write tool makes all its checks first, so that a refusal
// (*kit.Refusal) has changed nothing. Rows are locked in one order, the
// numbering before reservations before users, so that no two tools wait for
// each other.
package airline

import "encoding/json"

// User is a document of airline_users.
type User struct {
	Name            json.RawMessage           `json:"name"`
	Address         json.RawMessage           `json:"address"`
	Email           string                    `json:"email"`
	DOB             string                    `json:"dob"`
	PaymentMethods  map[string]*PaymentMethod `json:"payment_methods"`
	SavedPassengers json.RawMessage           `json:"saved_passengers"`
	Membership      string                    `json:"membership"`
	Reservations    []string                  `json:"reservations"`
}

// Sources of a payment method.
const (
	sourceGiftCard    = "gift_card"
	sourceCertificate = "certificate"
)

// PaymentMethod is a card or voucher of a user. Amount is what a gift card or
// certificate is still worth; a credit card has none.
type PaymentMethod struct {
	Source   string   `json:"source"`
	Amount   *float64 `json:"amount,omitempty"`
	Brand    string   `json:"brand,omitempty"`
	LastFour string   `json:"last_four,omitempty"`
	ID       string   `json:"id"`
}

// covers reports whether the method is worth at least price. What is not
// prepaid covers everything.
func (m *PaymentMethod) covers(price float64) bool {
	return m.Amount == nil || *m.Amount >= price
}

// charge takes price off a gift card; a negative price is put on it. Other
// methods are charged elsewhere.
func (m *PaymentMethod) charge(price float64) {
	if m.Source == sourceGiftCard && m.Amount != nil {
		*m.Amount -= price
	}
}

// Reservation is a document of airline_reservations.
type Reservation struct {
	ReservationID   string         `json:"reservation_id"`
	UserID          string         `json:"user_id"`
	Origin          string         `json:"origin"`
	Destination     string         `json:"destination"`
	FlightType      string         `json:"flight_type"`
	Cabin           string         `json:"cabin"`
	Flights         []BookedFlight `json:"flights"`
	Passengers      []Passenger    `json:"passengers"`
	PaymentHistory  []Payment      `json:"payment_history"`
	CreatedAt       string         `json:"created_at"`
	TotalBaggages   int            `json:"total_baggages"`
	NonfreeBaggages int            `json:"nonfree_baggages"`
	Insurance       string         `json:"insurance"`
	Status          string         `json:"status,omitempty"` // absent until cancelled
}

// BookedFlight is one flight of a reservation at the price paid a passenger.
type BookedFlight struct {
	FlightNumber string  `json:"flight_number"`
	Date         string  `json:"date"`
	Price        float64 `json:"price"`
	Origin       string  `json:"origin"`
	Destination  string  `json:"destination"`
}

// FlightChoice is a flight as a call names it. Agents copy whole flights of a
// reservation into it, so what the flight itself decides is taken and ignored.
type FlightChoice struct {
	FlightNumber string          `json:"flight_number"`
	Date         string          `json:"date"`
	Origin       json.RawMessage `json:"origin,omitempty"`
	Destination  json.RawMessage `json:"destination,omitempty"`
	Price        json.RawMessage `json:"price,omitempty"`
}

// Passenger travels on a reservation.
type Passenger struct {
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	DOB       string `json:"dob"`
}

// Payment is one line of a reservation's payment history; a refund is
// negative.
type Payment struct {
	PaymentID string  `json:"payment_id"`
	Amount    float64 `json:"amount"`
}
