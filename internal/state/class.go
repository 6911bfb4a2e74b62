package state

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
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

// ClassesText returns classes as the text of an event.
func ClassesText(classes map[string]Class) string {
	text, err := json.Marshal(classes)
	if err != nil {
		panic(err) // it is strings, integers and booleans
	}
	return string(text)
}

// ParseClasses is the reverse of ClassesText. The error names what is wrong with the text: classes
// that are not known here would not be those of the other processes.
func ParseClasses(text string) (classes map[string]Class, err error) {
	if err = DecodeStrictly(text, &classes); err == nil {
		err = ValidateClasses(classes)
	}
	if err != nil {
		return nil, err
	}
	return classes, nil
}

// Line is how far the classes of a line have been served: see package fairline. It holds for the
// classes of one text alone.
type Line struct {
	Of      uint64               // of the classes: see ClassesID
	Virtual [2]int64             // the virtual time of the classes, and of those ahead
	Passed  int                  `json:",omitempty"`
	Classes map[string]LineClass `json:",omitempty"`
}

// LineClass is how far a class of a line has been served.
type LineClass struct {
	Start int64 // the virtual time at which its next one begins
	Turn  int64 `json:",omitempty"` // of its flows
}

// ClassesID tells texts of classes apart.
func ClassesID(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// LineText returns the text of an event that says how far a line is.
func LineText(l Line) string {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // it is strings and integers
	}
	return string(text)
}

// ParseLine is the reverse of LineText.
func ParseLine(text string) (l Line, err error) {
	if err = DecodeStrictly(text, &l); err != nil {
		return Line{}, err
	}
	values := []int64{l.Virtual[0], l.Virtual[1], int64(l.Passed)}
	for _, c := range l.Classes {
		values = append(values, c.Start, c.Turn)
	}
	for _, v := range values {
		if v < 0 || v > 1<<62 {
			return Line{}, fmt.Errorf("a line is at %d", v)
		}
	}
	return l, nil
}
