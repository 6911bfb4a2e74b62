package debugpage

import (
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// form is a form of the answer.
type form int

const (
	formPage form = iota
	formJSON
	formStream
)

// mediaTypes are the forms that a request can ask for in Accept.
var mediaTypes = map[string]form{
	"text/html": formPage, "application/json": formJSON, "text/event-stream": formStream,
}

// formOf returns the form that a request asks for: by ?format or ?stream, else by Accept.
func formOf(r *http.Request) (form, error) {
	query := r.URL.Query()
	switch format := query.Get("format"); {
	case format == "json":
		return formJSON, nil
	case format == "html":
		return formPage, nil
	case format != "":
		return 0, fmt.Errorf("format is %q, want html or json", format)
	case query.Has("stream"):
		return formStream, nil
	}
	return accepted(r.Header.Values("Accept")), nil
}

// accepted returns the form of the media type with the highest weight, the first of several. It is
// the page if there is none, as for */*.
func accepted(accept []string) form {
	best, bestWeight := formPage, 0.0
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, params, err := mime.ParseMediaType(part)
		of, known := mediaTypes[name]
		if err != nil || !known {
			continue
		}
		weight := 1.0
		if q, found := params["q"]; found {
			if weight, err = strconv.ParseFloat(q, 64); err != nil {
				continue
			}
		}
		if weight > bestWeight {
			best, bestWeight = of, weight
		}
	}
	return best
}

// Versions count in base 36.
func formatVersion(version uint64) string { return strconv.FormatUint(version, 36) }

// parseVersion returns 0 for what is no version.
func parseVersion(text string) uint64 {
	version, err := strconv.ParseUint(text, 36, 64)
	if err != nil {
		return 0
	}
	return version
}
