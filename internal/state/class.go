package state

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"
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
		return fmt.Errorf("%s has %d classes, want at most %d", "Classes", n, MostClasses)
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
			{"MaxQueue", c.MaxQueue, math.MaxInt},
		} {
			switch {
			case field.value < 0 && field.most == math.MaxInt:
				return fmt.Errorf("class %.100q: field %s is %d, want 0 or more", name, field.name, field.value)
			case field.value < 0 || field.value > field.most:
				return fmt.Errorf("class %.100q: field %s is %d, want 0 to %d", name, field.name, field.value, field.most)
			}
		}
		if name == "" && c.ReservePercent > 0 {
			return fmt.Errorf("class %q: field ReservePercent is %d, want 0: it is the class of calls that name none", name, c.ReservePercent)
		}
		if len(name) > MostClassName {
			return fmt.Errorf("class %.100q… has a name of %d bytes, want at most %d", name, len(name), MostClassName)
		}
		if !utf8.ValidString(name) {
			return fmt.Errorf("class %q has a name that is not UTF-8, which shared stores would change", name)
		}
		sum += c.ReservePercent
	}
	if sum > 100 {
		return fmt.Errorf("%s: the fields ReservePercent add up to %d, want at most 100", "Classes", sum)
	}
	return nil
}

// ParseClasses reads the text of classes in shared stores of before. The error names what is wrong
// with the text.
func ParseClasses(text string) (classes map[string]Class, err error) {
	if err = DecodeStrictly(text, &classes); err == nil {
		err = ValidateClasses(classes)
	}
	if err != nil {
		return nil, err
	}
	return classes, nil
}
