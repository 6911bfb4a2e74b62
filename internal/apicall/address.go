package apicall

import (
	"cmp"
	"errors"
	"net/url"
	"strings"
)

// Address returns the URL of a path, such as /v1/models, at a base, which is the provider's where
// it is empty. A base that ends in the first segment of the path, as the base URLs of some SDKs
// do, does not get it twice. The error never holds the base, which may have a password.
func Address(base, provider, path string) (string, error) {
	base = strings.TrimRight(cmp.Or(base, provider), "/")
	parsed, err := url.Parse(base)
	if err != nil {
		return "", errors.New("BaseURL is not a URL")
	}
	if strings.ContainsAny(base, "?#") {
		return "", errors.New("BaseURL has a query or a fragment")
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if version = "/" + version; strings.HasSuffix(parsed.EscapedPath(), version) {
		base = strings.TrimSuffix(base, version)
	}
	return base + path, nil
}
