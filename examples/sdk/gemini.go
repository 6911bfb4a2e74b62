package main

import (
	"context"
	"net/http"

	"google.golang.org/genai"
)

// askGemini sends a prompt with Google's SDK.
func askGemini(ctx context.Context, hc *http.Client, p provider, prompt string) (string, error) {
	client, err := genai.NewClient(ctx, &genai.ClientConfig{
		Backend: genai.BackendGeminiAPI, APIKey: p.key,
		HTTPClient: hc, HTTPOptions: genai.HTTPOptions{BaseURL: p.url},
	})
	if err != nil {
		return "", err
	}
	reply, err := client.Models.GenerateContent(ctx, p.model, genai.Text(prompt), nil)
	if err != nil {
		return "", err
	}
	return reply.Text(), nil
}
