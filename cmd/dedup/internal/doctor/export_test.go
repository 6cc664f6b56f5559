package doctor

import "fmt"

// EffectsSQL is what checkEffects reads of a table.
func EffectsSQL(table string) string { return fmt.Sprintf(effectsSQL, table) }
