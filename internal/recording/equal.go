package recording

import (
	"encoding/json"
	"reflect"
)

// Equal reports whether two results say the same: as JSON values, numbers as
// float64, where both are JSON, and as plain text otherwise. The result of a
// call that answered nothing is Null, which equals only itself.
func Equal(a, b string) bool {
	if a == b {
		return true
	}
	return EqualJSON([]byte(a), []byte(b))
}

// EqualJSON reports whether two texts are both JSON and of equal value.
func EqualJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}
