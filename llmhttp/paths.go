package llmhttp

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"dappco.re/go/core/go-ratelimit/llmhttp/internal/headers"
)

//go:generate go test -run TestPathsFile -update

// fate is what happens to a call of a path that this package knows.
type fate string

const (
	countedFate  fate = "counted"              // requests, tokens and money
	requestsFate fate = "counted as a request" // its answer reports no tokens
	freeFate     fate = "free"                 // passes on purpose
	toldFate     fate = "told as uncounted"    // generates, but nothing here can count it
)

// knownPath is a path that this package knows: a pathPattern. One that is free names the host where
// it ends in a placeholder, so that it hides no other call.
type knownPath struct {
	api, method, path string
	fate              fate
	note              string
	source, readOn    string // the page of the provider, and the day on which it was read
}

// pathLister is an adapter that lists the paths of its API.
type pathLister interface{ paths() []knownPath }

// knownPaths returns all paths that this package knows: those of the adapters, and then those that
// none of them counts.
func knownPaths() []knownPath {
	var all []knownPath
	for _, a := range adapters {
		if lister, ok := a.(pathLister); ok {
			all = append(all, lister.paths()...)
		}
	}
	return slices.Concat(all, openAIPaths(), anthropicPaths(), cloudPaths(), otherPaths(), localPaths())
}

// sample returns a URL with the path.
func (p knownPath) sample() *url.URL {
	host, path, _ := strings.Cut(p.path, "/")
	if host == "" {
		host = "llm.test"
	}
	u := &url.URL{Scheme: "https", Host: host}
	for part := range strings.SplitSeq(path, "/") {
		if before, after, ok := strings.Cut(part, "{"); ok {
			_, after, _ = strings.Cut(after, "}")
			part = before + "x" + after
		}
		u.Path += "/" + part
	}
	return u
}

// uncountedPaths are the paths of which an adapter counts nothing.
var uncountedPaths = sync.OnceValue(func() *pathIndex {
	index := &pathIndex{byEnd: make(map[string][]pathPattern)}
	for _, known := range knownPaths() {
		if known.fate == freeFate || known.fate == toldFate {
			index.add(known)
		}
	}
	return index
})

// pathIndex finds the known path that a request has.
type pathIndex struct {
	byEnd map[string][]pathPattern // by the last segment
	rest  []pathPattern            // of which that has a placeholder
}

func (x *pathIndex) add(known knownPath) {
	p := patternOfPath(known.path)
	p.known = known
	if last := p.segments[len(p.segments)-1]; last.whole() {
		x.byEnd[last.before] = append(x.byEnd[last.before], p)
	} else {
		x.rest = append(x.rest, p)
	}
}

// find returns what is known of a path: of several that match, the one with the most weight. It
// returns the model, too, if the path names it; and nil for a path that is not known.
func (x *pathIndex) find(method, host, path string) (known *knownPath, model string) {
	path = strings.TrimRight(path, "/")
	most := 0
	for _, patterns := range [...][]pathPattern{x.byEnd[path[strings.LastIndexByte(path, '/')+1:]], x.rest} {
		for i := range patterns {
			p := &patterns[i]
			if p.known.method != method || p.weight() <= most {
				continue
			}
			if in, ok := p.match(host, path); ok {
				most, known, model = p.weight(), &p.known, in
			}
		}
	}
	return known, model
}

// pathPattern is a pattern for the end of a path: whole segments, of which {name} stands for one,
// for a part of one, or, as {name...} at the end, for one or more; and * for one.
type pathPattern struct {
	host     string // the end of it; empty for any
	segments []segment
	known    knownPath
}

// segment is a segment of a pathPattern: a text, or what stands before and behind a placeholder.
type segment struct {
	before, after string
	name          string // of the placeholder; empty for a text
	many          bool   // the placeholder stands for one or more segments
}

func (s *segment) whole() bool { return s.name == "" }

// patternOfPath returns the pattern that a text is. If it does not begin with a slash, and its
// first segment has a dot, that is the end of a host.
func patternOfPath(text string) pathPattern {
	var p pathPattern
	if host, rest, ok := strings.Cut(text, "/"); ok && strings.Contains(host, ".") {
		p.host, text = strings.ToLower(host), rest
	}
	for part := range strings.SplitSeq(strings.Trim(text, "/"), "/") {
		s := segment{before: part}
		open, end := strings.IndexByte(part, '{'), strings.IndexByte(part, '}')
		switch {
		case part == "*":
			s = segment{name: "*"}
		case open >= 0 && open < end:
			s = segment{before: part[:open], after: part[end+1:]}
			s.name, s.many = strings.CutSuffix(part[open+1:end], "...")
		}
		p.segments = append(p.segments, s)
	}
	return p
}

// patternsOf returns the patterns of Transport.Free.
func patternsOf(free []string) (all []pathPattern, err error) {
	for i, text := range free {
		if strings.Trim(text, "/") == "" || strings.ContainsAny(text, " ?#") || strings.Contains(text, "://") {
			return nil, fmt.Errorf("llmhttp: Transport.Free[%d] is %q, want a path, with a host at most", i, text)
		}
		all = append(all, patternOfPath(text))
	}
	return all, nil
}

// weight orders the patterns that match a path: one that names the last segment is better, and then
// the one that names more.
func (p *pathPattern) weight() int {
	weight := 1
	if p.segments[len(p.segments)-1].whole() {
		weight = 1000
	}
	for i := range p.segments {
		if weight += 2; p.segments[i].whole() {
			weight++
		}
	}
	if p.host != "" {
		weight++
	}
	return weight
}

// match reports whether a request has the path, and returns the model that it names.
func (p *pathPattern) match(host, path string) (model string, ok bool) {
	if p.host != "" && !headers.IsHost(host, p.host) {
		return "", false
	}
	for i := len(p.segments) - 1; i >= 0; i-- {
		s := &p.segments[i]
		if path == "" {
			return "", false
		}
		if s.many {
			return p.matchMany(i, path)
		}
		at := strings.LastIndexByte(path, '/')
		part := path[at+1:]
		path = path[:max(at, 0)]
		switch {
		case s.whole():
			if part != s.before {
				return "", false
			}
		case len(part) <= len(s.before)+len(s.after) || !strings.HasPrefix(part, s.before) || !strings.HasSuffix(part, s.after):
			return "", false
		case s.name == "model":
			model = part[len(s.before) : len(part)-len(s.after)]
		}
	}
	return model, true
}

// matchMany matches a path up to the placeholder at i, which stands for one or more segments: of
// the places where the segments before it are, it takes the first.
func (p *pathPattern) matchMany(i int, path string) (model string, ok bool) {
	head := pathPattern{segments: p.segments[:i]}
	for end, c := range path {
		if c != '/' || end+1 == len(path) {
			continue
		}
		if _, ok := head.match("", path[:end]); ok {
			return path[end+1:], true
		}
	}
	return "", false
}

// modelSegments are the segments of a path behind which a model stands, and how many more segments
// there must be.
var modelSegments = [...]struct {
	name string
	more int
}{
	{"models", 0}, {"tunedModels", 0}, {"model", 1}, {"deployments", 1}, {"engines", 1}, {"endpoints", 1},
	{"serving-endpoints", 1}, {"reasoningEngines", 1},
}

// modelInPath returns the model that a path names that is not known: NAME of .../models/NAME,
// .../deployments/NAME/..., .../models/NAME:METHOD and the like. Azure ignores the case of letters.
func modelInPath(path string) string {
	rest := strings.TrimRight(path, "/")
	for {
		part, behind, ok := strings.Cut(rest, "/")
		if !ok {
			return ""
		}
		rest = behind
		for _, s := range modelSegments {
			if !strings.EqualFold(part, s.name) {
				continue
			}
			name, _, more := strings.Cut(rest, "/")
			if before, _, ok := strings.Cut(name, ":"); ok {
				return before
			}
			if s.more == 0 || more {
				return name
			}
		}
	}
}
