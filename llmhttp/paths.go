package llmhttp

// fate is what happens to a call of a path that this package knows.
type fate string

const (
	countedFate  fate = "counted"              // requests, tokens and money
	requestsFate fate = "counted as a request" // its answer reports no tokens
	freeFate     fate = "free"                 // passes on purpose
	toldFate     fate = "told as uncounted"    // generates, but nothing here can count it
)

// knownPath is a path that this package knows. In its path, {model} stands for one segment or the
// part of one.
type knownPath struct {
	api, method, path string
	fate              fate
	note              string
	source, readOn    string // the page of the provider, and the day on which it was read
}
