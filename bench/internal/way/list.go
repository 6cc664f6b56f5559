package way

import (
	"fmt"
	"slices"
	"strings"
)

// All returns every way, the base of all ratios first.
func All() []Way {
	return []Way{
		Bare(),
		Textbook(),
		Do(),
		SQL(),
		DoSQL(),
		Gorm(),
		DoGorm(),
		DoOTel(),
		DoOTelTenth(),
		DoOTelMetrics(),
		DoLookFirst(),
		DoStatement(),
		DoTx(),
		DoBatch(),
		External(),
		ExternalAccept(),
		Select(),
		River(),
		RiverJob(),
		DBOSOnePool(),
		DBOSTwoPools(),
		DBOSStep(),
		Redis(),
	}
}

// Base is the name of the way to which all others are compared.
const Base = "bare"

// Choose returns the ways of the given names, in the order of All, and the base
// whether it is named or not. No names mean all.
func Choose(names []string) ([]Way, error) {
	all := All()
	known := make([]string, 0, len(all))
	for _, w := range all {
		known = append(known, w.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no way %q; choose from %s", name, strings.Join(known, ", "))
		}
	}
	if len(names) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(w Way) bool { return w.Name != Base && !slices.Contains(names, w.Name) }), nil
}
