package keys

import (
	"go/types"
	"regexp"

	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// unstable reports whether v is a call of a function that returns another value each time: a time,
// a random number or an id. [dedup.NewKey] does not count, because its keys are saved.
func unstable(v ssa.Value) bool {
	fn := called(v)
	if fn == nil || fn.Pkg() == nil {
		return false
	}
	path, name := versionless(fn.Pkg().Path()), fn.Name()
	switch path {
	case "math/rand": // methods of a Rand too
		return !constructs[name]
	case "time":
		return api.IsFunc(fn, "time", "Now", "Since", "Until")
	case "io":
		return api.IsFunc(fn, "io", "ReadFull") && isRandReader(v.(*ssa.Call).Call.Args[0])
	}
	return fn.Signature().Recv() == nil && ids[path][name]
}

// minted reports whether v is a call of dedup.NewKey.
func minted(v ssa.Value) bool { return api.IsFunc(called(v), api.Dedup, "NewKey") }

func called(v ssa.Value) *types.Func {
	if call, ok := v.(*ssa.Call); ok {
		return code.Callee(&call.Call)
	}
	return nil
}

var constructs = map[string]bool{"New": true, "NewSource": true, "NewPCG": true, "NewChaCha8": true, "NewZipf": true, "Seed": true}

// ids are the functions of common packages that return a new id.
var ids = map[string]map[string]bool{
	"crypto/rand":                       set("Int", "Prime", "Read", "Text"),
	"github.com/google/uuid":            set("New", "NewString", "NewRandom", "NewRandomFromReader", "NewUUID", "NewV6", "NewV7", "NewV7FromReader", "NewDCEGroup", "NewDCEPerson", "NewDCESecurity"),
	"github.com/gofrs/uuid":             set("NewV1", "NewV4", "NewV6", "NewV7"),
	"github.com/satori/go.uuid":         set("NewV1", "NewV4"),
	"github.com/hashicorp/go-uuid":      set("GenerateUUID", "GenerateRandomBytes"),
	"github.com/rs/xid":                 set("New", "NewWithTime"),
	"github.com/oklog/ulid":             set("Make", "New", "MustNew", "Now"),
	"github.com/segmentio/ksuid":        set("New", "NewRandom"),
	"github.com/lithammer/shortuuid":    set("New"),
	"github.com/matoous/go-nanoid":      set("New", "Must", "Generate", "MustGenerate"),
	"github.com/teris-io/shortid":       set("Generate", "MustGenerate"),
	"k8s.io/apimachinery/pkg/util/uuid": set("NewUUID"),
}

func set(names ...string) map[string]bool {
	s := make(map[string]bool, len(names))
	for _, name := range names {
		s[name] = true
	}
	return s
}

var version = regexp.MustCompile(`/v[0-9]+$`)

func versionless(path string) string { return version.ReplaceAllString(path, "") }
