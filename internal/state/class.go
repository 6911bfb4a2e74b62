package state

import (
	"fmt"
	"maps"
	"slices"
)

// Class has the fields of the limiter's Class in the same order, so that one converts to the other.
type Class struct {
	Weight         int  `json:",omitempty"`
	ReservePercent int  `json:",omitempty"`
	MaxQueue       int  `json:",omitempty"`
	Ahead          bool `json:",omitempty"`
}

// The bounds of classes.
const (
	MostWeight    = 1_000_000
	MostClasses   = 100
	MostClassName = 100 // bytes
)

// ValidateClasses returns an error that names the first class and field out of range, in the order
// of the names, and the value.
func ValidateClasses(classes map[string]Class) error {
	if n := len(classes); n > MostClasses {
		return fmt.Errorf("Classes has %d classes, want at most %d", n, MostClasses)
	}
	sum := 0
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		c := classes[name]
		for _, field := range [...]struct {
			name        string
			value, most int
		}{
			{"Weight", c.Weight, MostWeight},
			{"ReservePercent", c.ReservePercent, 100},
			{"MaxQueue", c.MaxQueue, int(^uint(0) >> 1)},
		} {
			if field.value < 0 || field.value > field.most {
				return fmt.Errorf("class %.100q: field %s is %d, want %d at most and not negative", name, field.name, field.value, field.most)
			}
		}
		if name == "" && c.ReservePercent > 0 {
			return fmt.Errorf("class %q: field ReservePercent is %d, want 0: it is the class of calls that name none", name, c.ReservePercent)
		}
		if len(name) > MostClassName {
			return fmt.Errorf("class %.100q… has a name of %d bytes, want at most %d", name, len(name), MostClassName)
		}
		sum += c.ReservePercent
	}
	if sum > 100 {
		return fmt.Errorf("Classes: the fields ReservePercent add up to %d, want at most 100", sum)
	}
	return nil
}
