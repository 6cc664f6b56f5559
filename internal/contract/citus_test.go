package contract_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// TestCitusContract runs the contract on a Citus cluster.
func TestCitusContract(t *testing.T) {
	t.Parallel()

	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		runContract(t, profile{engine: onCitus, order: order, isolation: pgx.ReadCommitted})
	}
}

// TestPlayedCitusContract runs what is sent to Citus on PostgreSQL.
func TestPlayedCitusContract(t *testing.T) {
	t.Parallel()

	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		runContract(t, profile{engine: onPlayedCitus, order: order, isolation: pgx.ReadCommitted})
	}
}
