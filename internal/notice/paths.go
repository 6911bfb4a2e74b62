package notice

import (
	"strings"
	"sync"
	"unicode"
)

const (
	// MaxPaths is how many paths are told apart.
	MaxPaths = 100
	// OtherPaths stands for all further ones.
	OtherPaths = "others"
	// maxName is the length in bytes to which a path and a model are cut.
	maxName = 256
)

// UncountedPaths are the paths of the requests that nothing counts. The zero value has met none. It
// is safe for concurrent use.
type UncountedPaths struct {
	mu  sync.Mutex
	met map[string]bool
}

// Meet notes a request to a path. It returns the name of the path, which is bounded, and reports
// whether that is met for the first time.
func (p *UncountedPaths) Meet(path string) (name string, first bool) {
	name = CutName(path)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.met[name] && len(p.met) >= MaxPaths {
		name = OtherPaths
	}
	if p.met[name] {
		return name, false
	}
	if p.met == nil {
		p.met = make(map[string]bool)
	}
	p.met[strings.Clone(name)] = true // it may be a part of a longer string
	return name, true
}

// CutName returns a name that may come from a caller as it can be shown: 256 bytes of UTF-8 at
// most, without control characters.
func CutName(name string) string {
	clean := func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}
	name = strings.Map(clean, strings.ToValidUTF8(name[:min(len(name), maxName)], ""))
	return strings.ToValidUTF8(name[:min(len(name), maxName)], "") // a replacement may be longer
}

// UncountedRefusal is why a call that nothing counts is not sent. It matches what says so, and
// never, the error of requests for which no wait helps.
type UncountedRefusal struct{ Why, Never error }

// Error says which policy refused the call.
func (r *UncountedRefusal) Error() string { return "not sent, by UnknownDeny" }

// Unwrap returns both errors.
func (r *UncountedRefusal) Unwrap() []error { return []error{r.Never, r.Why} }
