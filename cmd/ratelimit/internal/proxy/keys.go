package proxy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"iter"
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

// keysOf yields the keys that a request brings, and where each is: a header, or keyQuery.
func keysOf(h http.Header, query string) iter.Seq2[string, string] {
	return func(yield func(key, place string) bool) {
		for _, name := range keyHeaders {
			for _, key := range h[name] {
				if name == bearerHeader {
					scheme, rest, _ := strings.Cut(key, " ")
					if key = ""; strings.EqualFold(scheme, "bearer") {
						key = strings.TrimSpace(rest)
					}
				}
				if key != "" && !yield(key, name) {
					return
				}
			}
		}
		for part := range strings.SplitSeq(query, "&") {
			_, value, _ := strings.Cut(part, "=")
			if key, err := url.QueryUnescape(value); err == nil && key != "" && isKey(part) && !yield(key, keyQuery) {
				return
			}
		}
	}
}

// keyOf returns the first key that a request brings, and where; empty for none.
func keyOf(h http.Header, query string) (key, place string) {
	for key, place := range keysOf(h, query) {
		return key, place
	}
	return "", ""
}

// isKey reports whether a parameter of a query is that of a key.
func isKey(part string) bool {
	name, _, _ := strings.Cut(part, "=")
	name, err := url.QueryUnescape(name)
	return err == nil && name == keyQuery
}

// hasTwoKeys reports whether a request brings keys that differ, of which the provider may take any.
func hasTwoKeys(r *http.Request) bool {
	first, _ := keyOf(r.Header, r.URL.RawQuery)
	for key := range keysOf(r.Header, r.URL.RawQuery) {
		if key != first {
			return true
		}
	}
	return false
}

// withoutTokens removes the tokens of clients from where keys are.
func (c *Clients) withoutTokens(out *http.Request) {
	isToken := func(value string) bool {
		words := strings.Fields(value) // the scheme may be any, or none
		return len(words) > 0 && c.find(words[len(words)-1]) != nil
	}
	for _, name := range keyHeaders {
		if out.Header[name] = slices.DeleteFunc(out.Header[name], isToken); len(out.Header[name]) == 0 {
			delete(out.Header, name)
		}
	}
	out.URL.RawQuery = withoutParts(out.URL.RawQuery, func(part string) bool {
		_, value, _ := strings.Cut(part, "=")
		value, err := url.QueryUnescape(value)
		return err == nil && isKey(part) && isToken(value)
	})
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
	out.URL.RawQuery = withoutParts(out.URL.RawQuery, isKey)
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

// withoutParts returns a query without some of its parameters.
func withoutParts(query string, isOut func(part string) bool) string {
	return strings.Join(slices.DeleteFunc(strings.Split(query, "&"), isOut), "&")
}

// isSigned reports whether a request is signed by AWS, so that it cannot go to another host than
// the one that it was signed for.
func isSigned(r *http.Request) bool {
	return strings.Contains(r.URL.RawQuery, "X-Amz-Signature=") || slices.ContainsFunc(r.Header[bearerHeader], func(value string) bool {
		return strings.HasPrefix(value, "AWS4-")
	})
}

// account names the account of a key by an HMAC with the secret of the installation. The name tells
// nothing of the key.
func account(secret []byte, key string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(key))
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil)[:10])
	return "key-" + strings.ToLower(text)
}
