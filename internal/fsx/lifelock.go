package fsx

// Liveness tells whether the owner of a life file lives. The zero value is Unknown.
type Liveness int

// The values of Liveness.
const (
	Unknown Liveness = iota // there is no file, or the system cannot tell
	Alive                   // the owner holds its lock
	Dead                    // the file is there, and nobody holds it
)

// String returns "unknown", "alive" or "dead".
func (l Liveness) String() string {
	return [...]string{"unknown", "alive", "dead"}[l]
}
