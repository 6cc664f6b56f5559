package bad

import (
	"math/big"

	"github.com/tooldedup/dedup"
)

func lossy(prices map[string]big.Int) dedup.Call {
	return dedup.Call{Scope: "acme", Tool: "price", Key: "k", Args: prices}
}
