package profile

import (
	"embed"
	"io/fs"
	"sync"
)

//go:generate go test . -run TestDoc -update

//go:embed data/*.json
var files embed.FS

// Builtin returns the built-in profiles. The tests read the same files, so a panic here is a broken
// build.
var Builtin = sync.OnceValue(func() *Set {
	data, err := fs.Sub(files, "data")
	if err != nil {
		panic(err)
	}
	set, err := Parse(data)
	if err != nil {
		panic(err)
	}
	return set
})

// Models returns which built-in profile knows which model.
var Models = sync.OnceValue(func() *Owners { return Builtin().Owners() })
