package apicall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// secrets are texts that no error may hold, the longest first, so that one that is part of another
// does not break that up.
type secrets []string

// secretsOf returns the secrets as a server gets them, without the space around them.
func secretsOf(texts []string) secrets {
	s := make(secrets, 0, len(texts))
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			s = append(s, text)
		}
	}
	slices.SortStableFunc(s, func(a, b string) int { return len(b) - len(a) })
	return s
}

// longest is the length of the longest secret.
func (s secrets) longest() int {
	if len(s) == 0 {
		return 0
	}
	return len(s[0])
}

// clean returns text without the secrets.
func (s secrets) clean(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

// cleanEnd removes from the end of a truncated text the beginning of a secret.
func (s secrets) cleanEnd(text string) string {
	for _, secret := range s {
		for part := secret; part != ""; part = part[:len(part)-1] {
			if before, found := strings.CutSuffix(text, part); found {
				text = before
				break
			}
		}
	}
	return text
}

// redact removes the secrets from an error. An error that held one no longer unwraps, except to
// the cause of the end of the context.
func (s secrets) redact(err error) error {
	text := err.Error()
	clean := s.clean(text)
	if clean == text {
		return err
	}
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, cause) {
			return fmt.Errorf("%s: %w", clean, cause)
		}
	}
	return errors.New(clean)
}
