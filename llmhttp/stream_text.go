package llmhttp

import "bytes"

// textKeys are the keys whose strings are the text that a model writes.
var textKeys = [...]pattern{
	patternOf(`"content":`),
	patternOf(`"text":`),
	patternOf(`"delta":`),
	patternOf(`"partial_json":`),
	patternOf(`"thinking":`),
	patternOf(`"arguments":`),
	patternOf(`"response":`),
	patternOf(`"reasoning_content":`),
	patternOf(`"reasoning":`),
}

// needles counts the text in the events of a stream. It begins with the key that the event before
// had, at the place where that had it, for the events of a stream are much alike.
type needles struct {
	last int // index of textKeys
	at   int
}

// count returns how many bytes the first string has that is text and not empty.
func (n *needles) count(data []byte) int {
	key := textKeys[n.last].text
	if n.at < len(data) && bytes.HasPrefix(data[n.at:], key) {
		if size := stringAfter(data[n.at+len(key):]); size > 0 {
			return size
		}
	}
	if size := n.find(data, n.last); size > 0 {
		return size
	}
	for i := range textKeys {
		if i == n.last {
			continue
		}
		if size := n.find(data, i); size > 0 {
			return size
		}
	}
	return 0
}

func (n *needles) find(data []byte, i int) int {
	key := &textKeys[i]
	for from := 0; ; from += len(key.text) {
		at := key.index(data[from:])
		if at < 0 {
			return 0
		}
		from += at
		if size := stringAfter(data[from+len(key.text):]); size > 0 {
			n.last, n.at = i, from
			return size
		}
	}
}

// stringAfter returns how many bytes the string has that p begins with, after white
// space; zero if there is none.
func stringAfter(p []byte) int {
	p = trimSpace(p)
	if len(p) == 0 || p[0] != '"' {
		return 0
	}
	p = p[1:]
	if n := special(p, 0); n < len(p) && p[n] == '"' {
		return n
	}
	for from := 0; ; from++ {
		i := bytes.IndexByte(p[from:], '"')
		if i < 0 {
			return len(p)
		}
		from += i
		slashes := 0
		for slashes < from && p[from-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return from
		}
	}
}
