package llmhttp

import (
	"io"
	"net/http"
	"strings"
)

// bodyForm is the form of a request's body as its headers declare it.
type bodyForm byte

const (
	jsonBody    bodyForm = iota
	untypedBody          // the body may be JSON: its first byte shows it
	typedBody            // the same, though the headers name another type, which some servers ignore
	otherBody            // multipart and the like, which is not read
)

// requestForm returns the form of a body by the Content-Type of its request. A plain client names
// no type, or a default that says nothing about the body: that of curl -d, or of a fetch with a
// string.
func requestForm(h http.Header) bodyForm {
	contentType := h["Content-Type"]
	if len(contentType) == 0 {
		return untypedBody
	}
	mediaType, _, _ := strings.Cut(contentType[0], ";")
	switch mediaType = strings.ToLower(strings.TrimSpace(mediaType)); mediaType {
	case "application/json":
		return jsonBody
	case "", "application/x-www-form-urlencoded", "text/plain", "application/octet-stream":
		return untypedBody
	}
	for _, kind := range [...]string{"multipart/", "image/", "audio/", "video/", "application/grpc", "application/connect"} {
		if strings.HasPrefix(mediaType, kind) {
			return otherBody
		}
	}
	if strings.Contains(mediaType, "json") { // text/json, application/problem+json
		return jsonBody
	}
	return typedBody
}

// joinedBody is a body of which a part was read and stands in front again. It closes as the body
// itself.
type joinedBody struct {
	io.Reader
	io.Closer
}
