package notice

import (
	"strings"
	"sync"
)

const (
	mostKeys  = 1024
	mostBytes = 256 // of a subject
)

// Sampler takes the first and then every n-th of things that come in great numbers, for each
// subject and kind by themselves, and counts those between. LogEvents uses it. When it knows 1,024
// of these, all new ones of a kind are counted together, and so are subjects of more than 256
// bytes. A Sampler is safe for concurrent use.
type Sampler struct {
	every int

	mu   sync.Mutex
	seen map[sampleKey]int // since the last that was taken, which counts
}

type sampleKey struct{ subject, kind string }

// NewSampler returns a Sampler that takes the first and then one of every so many; all of them for
// 1 and less.
func NewSampler(every int) *Sampler {
	return &Sampler{every: max(every, 1), seen: make(map[sampleKey]int)}
}

// Take reports whether one of a subject and kind is taken, and how many were not since the last
// one. There must be few kinds: they are not bounded. A nil Sampler takes none.
func (s *Sampler) Take(subject, kind string) (take bool, leftOut int) {
	if s == nil {
		return false, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := sampleKey{subject, kind}
	n, known := s.seen[k]
	if !known {
		if len(subject) > mostBytes || len(s.seen) >= mostKeys {
			k.subject = ""
		} else {
			k.subject = strings.Clone(subject) // which may be a part of a longer string
		}
		n, known = s.seen[k]
	}
	if known && n < s.every {
		s.seen[k] = n + 1
		return false, 0
	}
	s.seen[k] = 1
	return true, max(n-1, 0)
}
