(* A load for an interpreter of byte code: a sieve, and a tree made and taken apart. *)
module M = Map.Make (Int)

let sieve limit =
  let composite = Array.make (limit + 1) false in
  for i = 2 to limit do
    if not composite.(i) then begin
      let j = ref (i * i) in
      while !j <= limit do composite.(!j) <- true; j := !j + i done
    end
  done;
  Array.fold_left (fun n c -> if c then n else n + 1) 0 composite

let tree n =
  let rec grow i m = if i = n then m else grow (i + 1) (M.add (i * 7919 mod 10007) i m) in
  M.fold (fun key value sum -> (sum * 31 + key + value) mod 1000003) (grow 0 M.empty) 0

let () =
  let rounds = int_of_string Sys.argv.(1) in
  for turn = 1 to rounds do
    if turn = rounds then Printf.printf "%d %d\n" (sieve 20000) (tree 3000)
    else ignore (sieve 20000 + tree 3000)
  done
