package llmhttp

import (
	"bytes"

	"dappco.re/go/core/go-ratelimit/internal/jsonscan"
)

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

// textCounter counts the text in the events of a stream. The events of a stream are much alike, so
// it first tries the key of the event before at the same place.
type textCounter struct {
	key int // index in textKeys
	at  int // offset of the key in the data
}

// count returns the length in bytes of the first text in an event that is not empty.
func (c *textCounter) count(data []byte) int {
	key := textKeys[c.key].text
	if c.at < len(data) && bytes.HasPrefix(data[c.at:], key) {
		if size := stringAfter(data[c.at+len(key):]); size > 0 {
			return size
		}
	}
	if size := c.find(data, c.key); size > 0 {
		return size
	}
	for i := range textKeys {
		if i == c.key {
			continue
		}
		if size := c.find(data, i); size > 0 {
			return size
		}
	}
	return 0
}

// find returns the length of the first text of key i that is not empty, and remembers its place.
func (c *textCounter) find(data []byte, i int) int {
	key := &textKeys[i]
	for from := 0; ; from += len(key.text) {
		at := key.index(data[from:])
		if at < 0 {
			return 0
		}
		from += at
		if size := stringAfter(data[from+len(key.text):]); size > 0 {
			c.key, c.at = i, from
			return size
		}
	}
}

// stringAfter returns the length in bytes of the string that p begins with after white space; zero
// if there is none.
func stringAfter(p []byte) int {
	p = trimSpace(p)
	if len(p) == 0 || p[0] != '"' {
		return 0
	}
	return jsonscan.StringLen(p[1:])
}
