package ratelimit

// liveness is what can be told about the owner of a life file.
type liveness int

const (
	lifeUnknown liveness = iota // there is no file, or it cannot be told
	lifeAlive
	lifeDead
)

func (l liveness) String() string {
	return [...]string{"unknown", "alive", "dead"}[l]
}
