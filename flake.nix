# `nix run . -- stat -- true` in a clone, `nix profile install .` to install.
{
  description = "Counts what a program does on a CPU, also where there is no PMU";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "aarch64-darwin" ];
      forEach = function: nixpkgs.lib.genAttrs systems (system: function nixpkgs.legacyPackages.${system});
      workspace = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).workspace.package;
    in
    {
      packages = forEach (pkgs: rec {
        default = cyclometer;
        cyclometer = pkgs.rustPlatform.buildRustPackage {
          pname = "cyclometer";
          version = workspace.version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          cargoBuildFlags = [ "--package" "cyclometer-cli" ];
          # The tests trace processes and compare with other tools: `cargo xtask test` runs them.
          doCheck = false;
          nativeBuildInputs = [ pkgs.installShellFiles ];
          postInstall = ''
            for shell in bash fish zsh; do
              $out/bin/cyclometer completions $shell > cyclometer.$shell
            done
            installShellCompletion cyclometer.bash cyclometer.fish cyclometer.zsh
            $out/bin/cyclometer man > cyclometer.1
            installManPage cyclometer.1
          '';
          meta = {
            description = "Counts what a program does on a CPU, also where there is no PMU";
            license = with pkgs.lib.licenses; [ mit asl20 ];
            mainProgram = "cyclometer";
          };
        };
      });
    };
}
