package airline

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// AirportsIn are the arguments of list_all_airports: none.
type AirportsIn struct{}

// Airports returns the city of every airport by its code. The list is part of the
// recorded tool and stands in no table.
func Airports(context.Context, pgx.Tx, AirportsIn) (map[string]string, error) {
	return map[string]string{
		"SFO": "San Francisco", "JFK": "New York", "LAX": "Los Angeles", "ORD": "Chicago",
		"DFW": "Dallas", "DEN": "Denver", "SEA": "Seattle", "ATL": "Atlanta",
		"MIA": "Miami", "BOS": "Boston", "PHX": "Phoenix", "IAH": "Houston",
		"LAS": "Las Vegas", "MCO": "Orlando", "EWR": "Newark", "CLT": "Charlotte",
		"MSP": "Minneapolis", "DTW": "Detroit", "PHL": "Philadelphia", "LGA": "LaGuardia",
	}, nil
}
