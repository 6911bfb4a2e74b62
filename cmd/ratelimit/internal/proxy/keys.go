package proxy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The headers in which SDKs put a key, the first one behind "Bearer ".
const (
	bearerHeader    = "Authorization"
	anthropicHeader = "X-Api-Key"
	azureHeader     = "Api-Key"
	geminiHeader    = "X-Goog-Api-Key"
)

var keyHeaders = [...]string{bearerHeader, anthropicHeader, azureHeader, geminiHeader}

// keyQuery is the parameter in which Gemini's clients may put a key.
const keyQuery = "key"

// keyOf returns the key that a request brings, and where: a header, or keyQuery; empty for none.
func keyOf(h http.Header, query string) (key, place string) {
	for _, name := range keyHeaders {
		key = h.Get(name)
		if name == bearerHeader {
			scheme, rest, _ := strings.Cut(key, " ")
			if key = ""; strings.EqualFold(scheme, "bearer") {
				key = strings.TrimSpace(rest)
			}
		}
		if key != "" {
			return key, name
		}
	}
	for part := range strings.SplitSeq(query, "&") {
		if value, ok := strings.CutPrefix(part, keyQuery+"="); ok && value != "" {
			if key, err := url.QueryUnescape(value); err == nil {
				return key, keyQuery
			}
		}
	}
	return "", ""
}

// ownPlace returns where the hosts of a provider want a key, whatever the client does; empty for
// hosts that are not known.
func ownPlace(host string) string {
	for _, known := range [...]struct{ host, place string }{
		{"api.anthropic.com", anthropicHeader},
		{"generativelanguage.googleapis.com", geminiHeader},
		{".openai.azure.com", azureHeader},
		{"api.openai.com", bearerHeader},
	} {
		if host == known.host || known.host[0] == '.' && strings.HasSuffix(host, known.host) {
			return known.place
		}
	}
	return ""
}

// setKey replaces what a client sent for a key with that of the upstream: where the provider wants
// it, else where the client had its own, else behind "Bearer ".
func (u *Upstream) setKey(out *http.Request, place string) {
	if own := ownPlace(u.URL.Hostname()); own != "" {
		place = own
	}
	for _, name := range keyHeaders {
		out.Header.Del(name)
	}
	out.URL.RawQuery = withoutKey(out.URL.RawQuery)
	switch place {
	case "", bearerHeader:
		out.Header.Set(bearerHeader, "Bearer "+u.Key)
	case keyQuery:
		pair := keyQuery + "=" + url.QueryEscape(u.Key)
		if out.URL.RawQuery != "" {
			pair = "&" + pair
		}
		out.URL.RawQuery += pair
	default:
		out.Header.Set(place, u.Key)
	}
}

// withoutKey returns a query without the parameter of a key.
func withoutKey(query string) string {
	parts := strings.Split(query, "&")
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool {
		name, _, _ := strings.Cut(part, "=")
		return name == keyQuery
	}), "&")
}

// isSigned reports whether a request is signed by AWS, so that it cannot go to another host than
// the one that it was signed for.
func isSigned(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-") || strings.Contains(r.URL.RawQuery, "X-Amz-Signature=")
}

// account names the account of a key by an HMAC with the secret of the installation. The name tells
// nothing of the key.
func account(secret []byte, key string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(key))
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil)[:10])
	return "key-" + strings.ToLower(text)
}
