package proxy

import (
	"fmt"
	"net/http"
	"strings"
)

// Label says where the class or the flow of a call comes from. The zero value is the header of its
// kind, unless the client has one of its own.
type Label struct {
	header string // a header
	path   bool   // the first segment of the path
	token  bool   // the client alone
}

// ParseLabel reads "header:NAME", "path" or "token".
func ParseLabel(text string) (Label, error) {
	name, isHeader := strings.CutPrefix(text, "header:")
	switch {
	case isHeader && name != "":
		return Label{header: http.CanonicalHeaderKey(name)}, nil
	case text == "path":
		return Label{path: true}, nil
	case text == "token":
		return Label{token: true}, nil
	}
	return Label{}, fmt.Errorf("%q: want header:NAME, path or token", text)
}

// NeedsToken reports whether the label is said in the file of clients alone.
func (l Label) NeedsToken() bool { return l.token }

// of returns the label of a request, and the path behind it. own is that of the client, and usual
// the header where nothing else was said. A segment of the path that is none of known, if that is
// not nil, belongs to the upstream.
func (l Label) of(h http.Header, path, own, usual string, known map[string]bool) (label, rest string) {
	switch {
	case l.path:
		label, rest, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
		if known != nil && !known[label] {
			return own, path
		}
		return label, "/" + rest
	case l.token:
		return own, path
	case l.header != "":
		return h.Get(l.header), path
	case own != "":
		return own, path
	}
	return h.Get(usual), path
}
