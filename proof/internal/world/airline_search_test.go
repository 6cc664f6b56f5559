package world_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/airline"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	b := setupAirline(t)

	pairs := func(origin, destination, date string) []string {
		got, err := callTool[[][]airline.Offer](t.Context(), b.bundle, "search_onestop_flight", airline.SearchIn{Origin: origin, Destination: destination, Date: date})
		require.NoError(t, err)
		require.NotNil(t, got, "an empty list, not null")
		names := []string{}
		for _, pair := range got {
			names = append(names, pair[0].FlightNumber+" "+pair[0].Date+", "+pair[1].FlightNumber+" "+pair[1].Date)
		}
		return names
	}
	require.Equal(t, []string{"QX101 2024-05-20, QX202 2024-05-20"}, pairs("KVL", "SRF", "2024-05-20"))
	require.Equal(t, []string{"QX102 2024-05-20, QX203 2024-05-21"}, pairs("KVL", "ODN", "2024-05-20"), "after midnight the day is the next")
	midnight, err := callTool[[][]airline.Offer](t.Context(), b.bundle, "search_onestop_flight", airline.SearchIn{Origin: "KVL", Destination: "ODN", Date: "2024-05-20"})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"basic_economy": 2, "economy": 3, "business": 1}, midnight[0][1].AvailableSeats, "the seats are the first day's")
	require.Equal(t, map[string]float64{"basic_economy": 77, "economy": 149, "business": 355}, midnight[0][1].Prices)
	require.Empty(t, pairs("KVL", "SRF", "2024-05-22"), "the second is late")
	require.Empty(t, pairs("KVL", "SRF", "soon"))

	requireRefused(t, b.bundle, "get_user_details", airline.UserIn{UserID: "nobody"}, "user not found")
	requireRefused(t, b.bundle, "get_reservation_details", airline.ReservationIn{ReservationID: "NONE"}, "user not found")
}

func TestAirports(t *testing.T) {
	t.Parallel()
	b := setupAirline(t)
	text, err := callTool[json.RawMessage](t.Context(), b.bundle, "list_all_airports", struct{}{})
	require.NoError(t, err)
	require.JSONEq(t, `{"SFO": "San Francisco", "JFK": "New York", "LAX": "Los Angeles", "ORD": "Chicago", "DFW": "Dallas",
		"DEN": "Denver", "SEA": "Seattle", "ATL": "Atlanta", "MIA": "Miami", "BOS": "Boston", "PHX": "Phoenix", "IAH": "Houston",
		"LAS": "Las Vegas", "MCO": "Orlando", "EWR": "Newark", "CLT": "Charlotte", "MSP": "Minneapolis", "DTW": "Detroit",
		"PHL": "Philadelphia", "LGA": "LaGuardia"}`, string(text))
}
