package airline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/airline"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	b := setup(t)

	pairs := func(origin, destination, date string) []string {
		got, err := call(t.Context(), b, airline.SearchOnestop, airline.SearchIn{Origin: origin, Destination: destination, Date: date})
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
	require.Empty(t, pairs("KVL", "SRF", "2024-05-22"), "the second is late")
	require.Empty(t, pairs("KVL", "SRF", "soon"))

	refused(t, b, airline.UserDetails, airline.UserDetailsIn{UserID: "nobody"}, "user not found")
	refused(t, b, airline.ReservationDetails, airline.ReservationDetailsIn{ReservationID: "NONE"}, "user not found")
}
