package keysource

import (
	"github.com/google/uuid"
	"github.com/tooldedup/dedup"
)

func ignored(call dedup.Call) {
	call.Key = uuid.NewString() //dedupvet:ignore it is known
	call.Key = uuid.NewString() // want `Call.Key comes from`
	//dedupvet:ignore it is known
	call.Key = uuid.NewString()
	call.Key = uuid.NewString() // want `Call.Key comes from`
	//dedupvet:ignore
	call.Key = uuid.NewString() // want `Call.Key comes from`
	//dedupvet:ignored by nobody
	call.Key = uuid.NewString() // want `Call.Key comes from`
}
