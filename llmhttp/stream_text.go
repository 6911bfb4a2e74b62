package llmhttp

import "bytes"

// textKeys are the keys whose strings are the text that a model writes.
var textKeys = [...][]byte{
	[]byte(`"content":`),
	[]byte(`"text":`),
	[]byte(`"delta":`),
	[]byte(`"partial_json":`),
	[]byte(`"thinking":`),
	[]byte(`"arguments":`),
	[]byte(`"response":`),
	[]byte(`"reasoning_content":`),
	[]byte(`"reasoning":`),
}

// needles counts the text in the events of a stream. It begins with the key that the event before
// had, at the place where that had it, for the events of a stream are much alike.
type needles struct {
	last int // index of textKeys
	at   int
}

// count returns how many bytes the first string has that is text and not empty.
func (n *needles) count(data []byte) int {
	key := textKeys[n.last]
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
	key := textKeys[i]
	for from := 0; ; from += len(key) {
		at := bytes.Index(data[from:], key)
		if at < 0 {
			return 0
		}
		from += at
		if size := stringAfter(data[from+len(key):]); size > 0 {
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
	for from := 0; ; {
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
		from++
	}
}
