package state

import (
	"encoding/json"
	"fmt"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
)

// Origin is who said a quota.
type Origin int

// The origins, in the order of their precedence. Learned is none of them: it is the limits of
// providers' reports that correct what the others said, zero where there is none.
const (
	Program Origin = iota // Config.Quotas, SetQuota, or the map of the limiter
	Account               // the account's own limits
	File                  // a file that does not tell who said it
	Profile               // a profile of a provider
	Learned
	Origins // how many there are
)

// OriginKeys are the keys of the origins in files.
var OriginKeys = [Origins]string{"program", "account", "file", "profile", "learned"}

// OriginOf returns the origin with the given key in files.
func OriginOf(key string) (o Origin, ok bool) {
	for o, is := range OriginKeys {
		if is == key {
			return Origin(o), true
		}
	}
	return 0, false
}

// Said is what each origin said of the quota of one model. The zero value says nothing. It is
// comparable. As JSON it is an object of quotas, by OriginKeys.
type Said struct {
	quotas [Origins]Quota // zero where has is false
	has    [Origins]bool
}

// SaidBy returns what says one quota.
func SaidBy(o Origin, q Quota) (s Said) {
	s.Set(o, q)
	return s
}

// Get returns what an origin said.
func (s *Said) Get(o Origin) (q Quota, ok bool) { return s.quotas[o], s.has[o] }

// Has reports whether an origin said anything.
func (s *Said) Has(o Origin) bool { return s.has[o] }

// Set notes what an origin said.
func (s *Said) Set(o Origin, q Quota) { s.quotas[o], s.has[o] = q, true }

// Drop forgets what an origin said.
func (s *Said) Drop(o Origin) { s.quotas[o], s.has[o] = Quota{}, false }

// Only returns what some of the origins said.
func (s *Said) Only(origins ...Origin) (part Said) {
	for _, o := range origins {
		if s.has[o] {
			part.Set(o, s.quotas[o])
		}
	}
	return part
}

// Any reports whether a quota that anybody said has something.
func (s *Said) Any(has func(*Quota) bool) bool {
	return slices.ContainsFunc(s.quotas[:], func(q Quota) bool { return has(&q) })
}

// IsEmpty reports whether nobody said anything.
func (s *Said) IsEmpty() bool { return *s == Said{} }

// Validate is Quota.Validate for all that was said of a model.
func (s *Said) Validate(model string) error {
	for o := range s.quotas {
		if err := s.quotas[o].Validate(model); err != nil {
			return err
		}
	}
	return nil
}

// Text returns what was said as text.
func (s *Said) Text() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // it is of strings and integers
	}
	return string(text)
}

// ParseSaid is the reverse of Said.Text. The error names what is wrong with the text.
func ParseSaid(text string) (s Said, err error) {
	err = json.Unmarshal([]byte(text), &s)
	return s, err
}

// MarshalJSON implements json.Marshaler.
func (s Said) MarshalJSON() ([]byte, error) {
	quotas := make(map[string]Quota)
	for o, key := range OriginKeys {
		if s.has[o] {
			quotas[key] = s.quotas[o]
		}
	}
	return json.Marshal(quotas)
}

// UnmarshalJSON implements json.Unmarshaler. It passes over origins that it does not know, and
// refuses fields of quotas that it does not know. The error names a field that is out of range; a
// zone that is not known here is no error.
func (s *Said) UnmarshalJSON(text []byte) error {
	var quotas map[string]Quota
	if err := DecodeStrictly(string(text), &quotas); err != nil {
		return err
	}
	var read Said
	for key, q := range quotas {
		if reason, bad := q.Invalid(); bad {
			return fmt.Errorf("%s: %s", errtext.Clip(key), reason)
		}
		if o, known := OriginOf(key); known {
			read.Set(o, q)
		}
	}
	*s = read
	return nil
}
